package multilock

import (
	"fmt"
)

// atMember says which member an error is of: several can have one name.
func atMember(index int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("member %d: %w", index+1, err)
}

// join is errors.Join on one line.
func join(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
