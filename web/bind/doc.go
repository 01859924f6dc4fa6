// Package bind connects web/api and web/live to what lies behind them: windows/runtime,
// windows/alert, windows/fate, the registry of streams and history. It translates, and holds answers to the
// rights of who asks.
package bind
