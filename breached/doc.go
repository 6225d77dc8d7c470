// Package breached answers whether a password has leaked.
//
// The corpus is Pwned Passwords: hashes of leaked passwords with how often each
// was seen, some 2.2 billion rows. Two questions are asked of it, and every
// [Source] answers both:
//
//   - Check: is this hash in it? It takes the whole hash, so it is for whoever
//     is trusted with it.
//   - Range: every hash that begins with these 20 bits, as the public service
//     answers it, so that whoever asks need not say which one he means.
//
// An error never means "safe": it means that nobody knows, and what follows
// from that is the caller's to say.
//
// A file that [Build] makes is an [Index]; [Live] is whatever index lies at a
// path now; [Remote] is the public service; [Chain] asks several in turn.
//
// Hashes are passwords to whoever has a list of them, and a prefix tells a
// known user's password to who has the corpus (Li et al., CCS 2019): neither is
// in any error of this package, nor is a password. What a faulty corpus file
// holds is named by its line.
package breached
