package api

import (
	"embed"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/language"
)

//go:embed page
var pageFiles embed.FS

// words are the page's in one language. %s stands for a figure or a time.
type words struct {
	Name         string `json:"name"` // of the language, in itself
	Language     string `json:"language"`
	Title        string `json:"title"`
	LeadWait     string `json:"lead_wait"`
	LeadCaptcha  string `json:"lead_captcha"`
	LeadVerify   string `json:"lead_verify"`
	Wait         string `json:"wait"`
	WaitLeft     string `json:"wait_left"`
	WaitOver     string `json:"wait_over"`
	WaitEarly    string `json:"wait_early"`
	Picture      string `json:"picture"`
	PictureAlt   string `json:"picture_alt"`
	Sound        string `json:"sound"`
	Digits       string `json:"digits"`
	Another      string `json:"another"`
	GoOn         string `json:"go_on"`
	Pow          string `json:"pow"`
	PowText      string `json:"pow_text"`
	PowStart     string `json:"pow_start"`
	PowBusy      string `json:"pow_busy"`
	PowFailed    string `json:"pow_failed"`
	Provider     string `json:"provider"`
	Code         string `json:"code"`
	CodeText     string `json:"code_text"`
	CodeSend     string `json:"code_send"`
	CodeLabel    string `json:"code_label"`
	CodeConfirm  string `json:"code_confirm"`
	CodeSent     string `json:"code_sent"`
	CodeLives    string `json:"code_lives"`
	CodePrice    string `json:"code_price"`
	Wrong        string `json:"wrong"`
	WrongCode    string `json:"wrong_code"`
	Unsure       string `json:"unsure"`
	Spent        string `json:"spent"`
	Fresh        string `json:"fresh"`
	Done         string `json:"done"`
	DoneText     string `json:"done_text"`
	Proof        string `json:"proof"`
	Error        string `json:"error"`
	ErrorText    string `json:"error_text"`
	ErrorExpired string `json:"error_expired"`
	ErrorOurs    string `json:"error_ours"`
	ErrorBusy    string `json:"error_busy"`
}

// languages are those that the sound is spoken in, so that whoever cannot see
// the picture is not left with digits in a language not understood. The first
// is for whoever asks for none of them.
var languages = []string{"en", "ja", "ru", "zh", "pt"}

var (
	inLanguage = readWords()
	matcher    = language.NewMatcher([]language.Tag{language.English, language.Japanese, language.Russian, language.Chinese, language.Portuguese})
)

// readWords refuses a name that is missing here: a word must not be lost.
func readWords() (all map[string]*words) {
	if err := json.Unmarshal(pageFile("words.json"), &all, json.RejectUnknownMembers(true)); err != nil {
		panic(err) // our own file; every test would meet it
	}
	return all
}

func pageFile(name string) []byte {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// languageOf is what ?lang asks for, else what the browser prefers.
func languageOf(r *http.Request) string {
	asked := r.URL.Query().Get("lang")
	if _, ok := inLanguage[asked]; ok {
		return asked
	}
	_, i := language.MatchStrings(matcher, asked, r.Header.Get("Accept-Language"))
	return languages[i]
}

// around splits a text where a figure or a time belongs.
func around(text string) (before, after string) {
	before, after, _ = strings.Cut(text, "%s")
	return before, after
}
