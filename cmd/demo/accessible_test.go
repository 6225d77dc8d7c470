package main

import (
	"testing"

	"github.com/guardd/guardd/api/client"
)

func TestAxeFindsNothingWrongWithTheShop(t *testing.T) {
	d := openShop(t)
	o := newOwner(t, d)
	look := func(state string) {
		t.Helper()
		o.Fits()
		o.Accessible(state)
	}
	o.Visit(d.shop.url + "/inbox")
	look("an empty inbox")
	o.Visit(d.shop.url)
	look("at first")
	o.signIn("wrong")
	look("a wrong password")
	d.refused(t, "127.0.0.1")
	o.expect(client.ActionDelay, o.signIn("wrong"))
	look("a delay")
	o.goOn()
	o.back()
	look("back with a proof")
	o.Visit(d.shop.url)
	o.attacked(true, client.ActionCaptcha)
	await(t, "codes asked for", func() bool { return d.met(client.ActionVerify) > 0 && d.newestCode() != "" })
	d.shop.attack.stop()
	o.expect(client.ActionVerify, o.signIn("wrong"))
	look("a code asked for, after an attack")
	o.goOn()
	o.confirm()
	o.expect(client.ActionAllow, o.signIn("wrong"))
	look("a wrong password with a proof that goes on")
	o.expect(client.ActionAllow, o.signIn(right))
	look("welcome")
	o.Visit(d.shop.url)
	look("a known device")
	o.Visit(d.shop.url + "/inbox")
	look("an inbox")
	if err := d.guard.server.Close(); err != nil {
		t.Fatal(err)
	}
	o.Visit(d.shop.url)
	o.signIn(right)
	look("without guardd")
}
