// Package auth knows who asks and what they may do.
//
// A key is the text tdm_<id>_<secret>. Its id finds it, its secret proves it; the server keeps the
// secret's SHA-256 alone, so a key is shown once, in the answer to the PUT that makes it. SHA-256
// without salt or stretching is enough: a secret is 128 random bits, which nobody guesses.
//
// While no key has the scope admin, authentication is off: everybody who reaches the server may do
// everything, and package web sees to it that only loopback does. The first admin key turns it on.
// The last one can't be deleted, so a server that listens to the network never becomes open again.
//
// A request passes three stations:
//
//	header    before the body is read: no valid key, no body (401)
//	Identify  before routing: who asks; preflights are answered
//	Guard     before each handler: the rule of the very route that Fiber chose
//
//	I1  A route without a rule is for admin keys only.
//	I2  Unknown ids and wrong secrets get the same answer, after the same work.
//	I3  A key is in no log line, no error and no answer but the one that makes it. An Authorization
//	    header or a subprotocol that holds one is never echoed.
//	I4  In an address only keys of the scope beacon are taken; these may post events and nothing else,
//	    from pages of their origins only, at their rate.
//	I5  A change of what a key may do, its rotation and its deletion end what it has open at once.
//	I6  Origins are echoed only to a key that lists them, without credentials.
//	I7  A session's cookie is HttpOnly and SameSite=Lax, its id is made at sign-in, and a change needs
//	    its token and this server's own origin besides. A one-time link dies at its first use.
//	I8  Of sessions and of links to dashboards the store has hashes alone. What they have open ends
//	    when they do.
//	I9  A link reads what the panels of its dashboard show, under their conditions and its own; no
//	    route without Link in its rule.
package auth
