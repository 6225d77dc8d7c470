// Package client asks guardd, from a login handler, whether a guess may be
// made. It imports the standard library, and this module's reader of ranges.
//
// Three calls are all there is: Attempt before the password is compared,
// Outcome after, Revoke when the password has changed. See the example. Breached
// looks a password up among the leaked ones, beside them and where one is set.
//
// guardd not answering is not an outage of the login: within 150 ms there is a
// response, whose Proceed then is what Config.Policy says, beside the error
// that says why.
package client
