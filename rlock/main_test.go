package rlock_test

import (
	"testing"

	"github.com/redlatch/redlatch/internal/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m, 12) }
