package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"path"
	"strings"
)

//go:embed static vendor/uplot/LICENSE icon.svg
var files embed.FS

// assetHash is the hash over every asset; it is part of their addresses.
var assetHash = func() string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		sum.Write([]byte(name))
		sum.Write(body)
		return err
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// AssetPath is the address of an asset, such as app.js.
func AssetPath(name string) string { return "/assets/" + assetHash + "/" + name }

// Asset returns the body and the content type of the asset at an address below /assets/, and
// whether it may be kept for ever (the address holds the present hash).
func Asset(address string) (body []byte, contentType string, immutable, ok bool) {
	hash, name, found := strings.Cut(strings.TrimPrefix(address, "/assets/"), "/")
	if !found || name != path.Base(name) {
		return nil, "", false, false
	}
	body, err := files.ReadFile("static/" + name)
	if name == "icon.svg" {
		body, err = files.ReadFile(name)
	}
	if err != nil {
		return nil, "", false, false
	}
	return body, mime.TypeByExtension(path.Ext(name)), hash == assetHash, true
}
