package redlatch_test

const childEnv = "REDLATCH_TEST_CHILD"

func runChild(string) int { return 1 }
