package client

import (
	"net/http"
	"time"
)

// DeviceCookie is the name of the cookie that holds a visitor's device token.
// The prefix makes browsers insist on Secure, Path=/ and no Domain, so that a
// neighbouring subdomain cannot plant one.
const DeviceCookie = "__Host-guardd_device"

// DeviceToken returns the visitor's device token, "" when there is none.
func DeviceToken(r *http.Request) string {
	c, err := r.Cookie(DeviceCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// Cookie returns the cookie that keeps the new device token in the visitor's
// browser, or nil when there is none; http.SetCookie does nothing with nil.
// It is HttpOnly (scripts have no use for it), Secure (browsers take localhost
// for secure) and SameSite=Lax.
func (r *OutcomeResponse) Cookie() *http.Cookie {
	if r == nil || r.Device == "" {
		return nil
	}
	return &http.Cookie{
		Name: DeviceCookie, Value: r.Device, Path: "/",
		Expires: r.DeviceExpiresAt, MaxAge: int(time.Until(r.DeviceExpiresAt) / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}
