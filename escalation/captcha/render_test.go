package captcha

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/guardd/guardd/escalation"
)

var digits = []byte{4, 0, 9, 1, 1, 7}

func TestAPictureIsDrawnOnWhite(t *testing.T) {
	m, err := Renderer{}.Image("an id", digits)
	if err != nil || m.Type != "image/png" {
		t.Fatalf("%v, %v", m, err)
	}
	img, err := png.Decode(bytes.NewReader(m.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds() != image.Rect(0, 0, Width, Height) {
		t.Errorf("it is of %v", img.Bounds())
	}
	count := map[color.Color]int{}
	for x := range Width {
		for y := range Height {
			count[img.At(x, y)]++
		}
	}
	if n := count[color.RGBA{255, 255, 255, 255}]; n < Width*Height/3 || n > Width*Height*19/20 {
		t.Errorf("%d of %d points are white", n, Width*Height)
	}
}

func TestMediaDifferByDigitsAndIDAndLanguage(t *testing.T) {
	seen := map[[32]byte]string{}
	once := func(what string, m *escalation.Media, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		sum := sha256.Sum256(m.Bytes)
		if other := seen[sum]; other != "" {
			t.Errorf("%s is %s", what, other)
		}
		seen[sum] = what
	}
	r := Renderer{}
	for _, id := range []string{"one", "two"} {
		for _, d := range [][]byte{digits, {4, 0, 9, 1, 1, 8}} {
			m, err := r.Image(id, d)
			once("a picture of "+id, m, err)
		}
	}
	for _, lang := range escalation.Languages {
		m, err := r.Audio("one", digits, lang)
		once("a sound in "+lang, m, err)
		// A WAV of one channel, 8000 samples of 8 bits a second, says its length.
		b := m.Bytes
		if m.Type != "audio/wav" || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" ||
			int(binary.LittleEndian.Uint32(b[4:])) != len(b)-8 {
			t.Errorf("%s: %s, % x of %d bytes", lang, m.Type, b[:12], len(b))
		}
		if s := len(b) / 8000; s < 8 || s > 40 {
			t.Errorf("%s: %d seconds", lang, s)
		}
	}
}
