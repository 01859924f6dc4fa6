package nexmark

// Query is one query of the workload as a view.
type Query struct {
	Name string
	What string
	SQL  string
	// Final queries give each row once, when its window is final; the others give changes.
	Final bool
}

// Queries are those that views can run today. The numbers are the workload's; a b marks the form of a
// query that says the same without a join.
var Queries = []Query{
	{Name: "q0", What: "bids unchanged", Final: false, SQL: `
SELECT auction, bidder, price, date_time, extra
FROM bid`},
	{Name: "q1", What: "prices in euros, exact decimals", Final: false, SQL: `
SELECT auction, bidder, 0.908 * price AS price_eur, date_time, extra
FROM bid`},
	{Name: "q2", What: "bids on every 123rd auction", Final: false, SQL: `
SELECT auction, price
FROM bid
WHERE auction % 123 = 0`},
	{Name: "q5b", What: "the auctions with most bids in the last 10 s, every 2 s", Final: true, SQL: `
SELECT window_start, window_end, auction, count(*) AS num
FROM hop(bid, date_time, INTERVAL '2 seconds', INTERVAL '10 seconds')
GROUP BY window_start, window_end, auction
QUALIFY count(*) = max(count(*)) OVER (PARTITION BY window_start, window_end)`},
	{Name: "q7b", What: "the highest bids of each 10 s", Final: true, SQL: `
SELECT auction, bidder, price, date_time, extra, window_end
FROM tumble(bid, date_time, INTERVAL '10 seconds')
QUALIFY price = max(price) OVER (PARTITION BY window_start, window_end)`},
	{Name: "q11", What: "bids of each bidder's sessions, gap 10 s", Final: true, SQL: `
SELECT bidder, count(*) AS bid_count, window_start, window_end
FROM session(bid, date_time, INTERVAL '10 seconds', bidder)
GROUP BY bidder, window_start, window_end`},
	{Name: "q12", What: "bids of each bidder in each 10 s of the log's clock", Final: true, SQL: `
SELECT bidder, count(*) AS bid_count, window_start, window_end
FROM tumble(bid, _append_time, INTERVAL '10 seconds')
GROUP BY bidder, window_start, window_end`},
	{Name: "q14", What: "a price band, a part of the day, letters counted", Final: false, SQL: `
SELECT auction, bidder, 0.908 * price AS price_eur,
       CASE
           WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
           WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
           ELSE 'otherTime'
       END AS bid_time_type,
       date_time, extra,
       length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000
  AND 0.908 * price < 50000000`},
	{Name: "q15", What: "a day's bids, bidders and auctions by price band", Final: false, SQL: `
SELECT strftime(date_time, '%Y-%m-%d') AS day,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS low_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_bids,
       count(*) FILTER (WHERE price >= 1000000) AS high_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high_bidders,
       count(DISTINCT auction) AS total_auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM bid
GROUP BY ALL`},
	{Name: "q16", What: "the same for each channel", Final: false, SQL: `
SELECT channel,
       strftime(date_time, '%Y-%m-%d') AS day,
       max(strftime(date_time, '%H:%M')) AS last_minute,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS low_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_bids,
       count(*) FILTER (WHERE price >= 1000000) AS high_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_bidders,
       count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high_bidders,
       count(DISTINCT auction) AS total_auctions,
       count(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_auctions,
       count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM bid
GROUP BY channel, strftime(date_time, '%Y-%m-%d')`},
	{Name: "q17", What: "each auction's bids by price band, with least, greatest, mean and sum", Final: false, SQL: `
SELECT auction,
       strftime(date_time, '%Y-%m-%d') AS day,
       count(*) AS total_bids,
       count(*) FILTER (WHERE price < 10000) AS low_bids,
       count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS mid_bids,
       count(*) FILTER (WHERE price >= 1000000) AS high_bids,
       min(price) AS min_price, max(price) AS max_price,
       avg(price) AS avg_price, sum(price) AS sum_price
FROM bid
GROUP BY auction, strftime(date_time, '%Y-%m-%d')`},
	{Name: "q18", What: "the last bid of each bidder on each auction", Final: false, SQL: `
SELECT auction, bidder, price, channel, url, date_time, extra
FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction
                           ORDER BY date_time DESC) = 1`},
	{Name: "q19", What: "the ten best bids of each auction", Final: false, SQL: `
SELECT auction, bidder, price, channel, url, date_time, extra,
       row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS rank_number
FROM bid
QUALIFY rank_number <= 10`},
	{Name: "q21", What: "a channel's number from its name or the url", Final: false, SQL: `
SELECT auction, bidder, price, channel,
       CASE lower(channel)
           WHEN 'apple'    THEN '0'
           WHEN 'google'   THEN '1'
           WHEN 'facebook' THEN '2'
           WHEN 'baidu'    THEN '3'
           ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')
       END AS channel_id
FROM bid
WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
   OR nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') IS NOT NULL`},
	{Name: "q22", What: "the parts of the url", Final: false, SQL: `
SELECT auction, bidder, price, channel,
       split_part(url, '/', 4) AS dir1,
       split_part(url, '/', 5) AS dir2,
       split_part(url, '/', 6) AS dir3
FROM bid`},
}

// Streams are the definitions of the streams, by kind.
var Streams = map[Kind]string{
	Person:  `{"time_field":"date_time","max_out_of_orderness":"4s","columns":{"id":"BIGINT","name":"VARCHAR","email_address":"VARCHAR","credit_card":"VARCHAR","city":"VARCHAR","state":"VARCHAR","date_time":"TIMESTAMP","extra":"VARCHAR"}}`,
	Auction: `{"time_field":"date_time","max_out_of_orderness":"4s","columns":{"id":"BIGINT","item_name":"VARCHAR","description":"VARCHAR","initial_bid":"BIGINT","reserve":"BIGINT","date_time":"TIMESTAMP","expires":"TIMESTAMP","seller":"BIGINT","category":"BIGINT","extra":"VARCHAR"}}`,
	Bid:     `{"time_field":"date_time","max_out_of_orderness":"4s","columns":{"auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","channel":"VARCHAR","url":"VARCHAR","date_time":"TIMESTAMP","extra":"VARCHAR"}}`,
}
