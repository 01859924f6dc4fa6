// Package bind connects web/api and web/live to what lies behind them: windows/runtime,
// windows/alert, the registry of streams and history. It translates and decides nothing.
package bind
