package breached

import "encoding/binary"

const ones = 0x0101010101010101

// hex8 reads eight hex digits of either case at once: a corpus is 88 billion of
// them. bad is not zero when one is no hex digit.
func hex8(b []byte) (value uint32, bad uint64) {
	x := binary.BigEndian.Uint64(b)
	y := x&(0x0F*ones) + 9*(x>>6&ones) // what each is worth, if it is a digit
	// Written again in upper case it must be what was read, and at most 15.
	letter := (y + 6*ones) >> 4 & ones
	upper := x &^ (x & (0x40 * ones) >> 1)
	bad = upper ^ (y + 0x30*ones + 7*letter) | y&(0x10*ones)
	y = (y | y>>4) & 0x00FF00FF00FF00FF
	y = (y | y>>8) & 0x0000FFFF0000FFFF
	return uint32(y | y>>16), bad
}

const upperHex = "0123456789ABCDEF"

// hexPair is each byte's two digits.
var hexPair = func() (t [256][2]byte) {
	for i := range t {
		t[i] = [2]byte{upperHex[i>>4], upperHex[i&15]}
	}
	return t
}()
