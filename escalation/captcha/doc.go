// Package captcha is what a person is shown to tell him from a machine: digits
// as a picture and as a sound, and the challenges of third parties.
package captcha
