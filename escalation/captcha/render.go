package captcha

import (
	"bytes"
	"image/color"

	dchest "github.com/dchest/captcha"

	"github.com/guardd/guardd/escalation"
)

// Renderer draws and speaks digits for an escalation.Guard. It uses the
// library's generators alone: the library's own memory of ids and answers can
// be asked without limit, knows one process, and takes a letter for a zero.
type Renderer struct{}

// The size of a picture in pixels. It is fixed: the library panics on sizes
// that it cannot fill, so no visitor may choose one.
const (
	Width  = 300
	Height = 100
)

// Image draws digits (each from 0 to 9) as a PNG of about 2 kB, in 5 ms. The
// noise comes of id, and is another in another process.
func (Renderer) Image(id string, digits []byte) (*escalation.Media, error) {
	img := dchest.NewImage(id, digits, Width, Height)
	img.Palette[0] = color.White // it is transparent, and so dark on a dark page
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		return nil, err
	}
	return &escalation.Media{Bytes: b.Bytes(), Type: "image/png"}, nil
}

// Audio speaks digits in lang, one of escalation.Languages, as a WAV of 130 to
// 230 kB that takes up to half a minute, in 10 ms. The library speaks English
// where it does not know the language.
func (Renderer) Audio(id string, digits []byte, lang string) (*escalation.Media, error) {
	var b bytes.Buffer
	if _, err := dchest.NewAudio(id, digits, lang).WriteTo(&b); err != nil {
		return nil, err
	}
	return &escalation.Media{Bytes: b.Bytes(), Type: "audio/wav"}, nil
}
