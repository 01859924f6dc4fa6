package auth_test

import (
	"testing"

	"tidemark/web/auth"
)

func TestAfterSignInNobodyIsSentElsewhere(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/d/shop?range=now-6h": "/d/shop?range=now-6h", "": "/", "//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/",
		"javascript:alert(1)": "/", "d/shop": "/", "/a\r\nSet-Cookie: x": "/", "///evil.example": "/",
	} {
		if got := auth.Next(path); got != want {
			t.Errorf("Next(%q) = %q, want %q", path, got, want)
		}
	}
}
