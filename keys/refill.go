package keys

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ErrRefillText is what ParseRefill returns; the caller adds the field's name.
var ErrRefillText = errors.New("must be a number of tokens, a slash and a duration, such as 20/1h")

// FormatRefill is the inverse of ParseRefill, without units that are zero at the
// end: 10/1h, not 10/1h0m0s.
func FormatRefill(count int64, per time.Duration) string {
	text := per.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return strconv.FormatInt(count, 10) + "/" + text
}

// ParseRefill reads how fast a bucket fills again: "20/1h" is 20 tokens per
// hour. Whether that can be a Limit, NewLimit says.
func ParseRefill(s string) (count int64, per time.Duration, err error) {
	n, d, ok := strings.Cut(s, "/")
	count, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
	per, derr := time.ParseDuration(strings.TrimSpace(d))
	if !ok || err != nil || derr != nil {
		return 0, 0, ErrRefillText
	}
	return count, per, nil
}
