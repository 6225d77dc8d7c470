// Package asn says which provider an address is announced by: the number of its
// autonomous system, from a file in MaxMind's format (GeoLite2-ASN, DB-IP's and
// others' are in it). guardd ships none, and works without.
//
// An attack out of one hosting provider comes from hundreds of its networks, of
// which no single one stands out; by the provider it does.
package asn
