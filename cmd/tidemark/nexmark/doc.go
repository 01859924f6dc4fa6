// Package nexmark makes the events of the Nexmark workload, an auction house with persons,
// auctions and bids, and knows its queries in our SQL.
//
// Events come in blocks of 50: a person, three auctions, 46 bids. Ids are dense and grow; one
// auction takes half of all bids for a while, one bidder three quarters of them, and ids up to ten
// ahead of what exists are referred to. Names, sizes, proportions and the skew are those of Apache
// Beam's generator; the random numbers are our own, so counts agree with those of other
// implementations in size and not to the row.
//
//	I1  An event follows from the seed and its number alone: the same on every machine, in whatever
//	    order events are made. Golden counts in the tests hold it.
//	I2  With a group size g, the events of each g numbers in a row come in a fixed other order.
package nexmark
