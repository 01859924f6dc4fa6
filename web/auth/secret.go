package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// A key's text is the prefix, 64 bits of id and 128 bits of secret, both in lower-case hexadecimal:
//
//	tdm_0123456789abcdef_0123456789abcdef0123456789abcdef
const (
	prefix     = "tdm_"
	idLen      = 16
	secretLen  = 32
	maxKeyText = 256
)

// digest is what is kept of a secret.
type digest [sha256.Size]byte

// newKeyText draws a key. crypto/rand never fails: it ends the process when the system has no
// randomness.
func newKeyText() (text, id string, d digest) {
	var random [(idLen + secretLen) / 2]byte
	_, _ = rand.Read(random[:])
	id = hex.EncodeToString(random[:idLen/2])
	secret := hex.EncodeToString(random[idLen/2:])
	return prefix + id + "_" + secret, id, sha256.Sum256([]byte(secret))
}

// splitKey cuts a key's text into id and secret. Text of another form gives an id that no key has.
func splitKey(text string) (id, secret string) {
	if len(text) > maxKeyText {
		return "", ""
	}
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return "", ""
	}
	id, secret, ok = strings.Cut(rest, "_")
	if !ok || len(id) != idLen || len(secret) != secretLen {
		return "", ""
	}
	return id, secret
}

// noDigest is compared with when there is no key of an id (I2). No secret has it.
var noDigest digest

// proves reports in constant time whether a secret is the one of the digest.
func (d *digest) proves(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], d[:]) == 1
}
