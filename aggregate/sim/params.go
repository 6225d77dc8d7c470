package sim

import "github.com/guardd/guardd/escalation"

// The parameters of the generator, all of them. They were written before the
// detector was tuned, and are not changed to suit it. Every one says where it
// is from; "assumed" means that no public figure was found, and says what the
// choice rests on.
//
// RBA is the data set of Wiefling et al., "Pump up password security!" (TOPS
// 2022): 3.3 million users of a Norwegian single sign-on in 2020. SG is the
// simulator of StopGuessing (Tian, Herley, Schechter 2016, microsoft/StopGuessing
// at 141cecc). Chatterjee is Chatterjee et al., "pASSWORD tYPOS" (S&P 2016).
const (
	// A day.

	// NightShare is the quietest hour's honest logins, of the busiest's.
	// Source: RBA, successes swing between 5 and 33 a minute.
	NightShare = 5.0 / 33
	// QuietestHour is when that is, UTC. Source: RBA, the small hours of Oslo.
	QuietestHour = 3.0
	// WeekendShare is a weekend day's logins, of a working day's.
	// Source: assumed; RBA's weeks dip by about a fifth.
	WeekendShare = 0.8

	// How it scatters. Source of the six: assumed, after the study of
	// distributed guessing that the design rests on; Polunchenko et al. (2012)
	// find that traffic's variance is a multiple of its mean.

	// LevelDrift and LevelHours: honest logins wander by so much (one standard
	// deviation of the logarithm) and forget it within so long.
	LevelDrift, LevelHours = 0.10, 0.5
	// OddsDrift and OddsHours: so do failures a success.
	OddsDrift, OddsHours = 0.08, 1.0
	// ScanDrift and ScanHours: so does what scans in the background.
	ScanDrift, ScanHours = 0.20, 2.0

	// Dispersion is the variance of a bin's counts over their mean, beside the
	// drifts: a failure is often followed by the same person's next.
	// Source: assumed; 1 is Poisson.
	Dispersion = 1.3

	// Honest people.

	// HonestFails is the share of honest attempts that fail.
	// Source: assumed, between SG (0.06: a third each of typos, passwords of other
	// sites and wrong names) and RBA (0.50 to 0.57, which has its attacks in it).
	HonestFails = 0.15
	// Typos is the share of honest failures that the next try makes good.
	// Source: Chatterjee: near 10 % are trivially correctable, and most people
	// get in at the second try; assumed 0.7 for all causes together.
	Typos = 0.70
	// NewDevices is the share of honest logins from a device that guardd does not
	// know. Source: assumed, above the tenth that the design demands.
	NewDevices = 0.12
	// NewPlaces is the share of these from an address where the account had not
	// signed in for 30 days, and KnownNewPlaces of those from known devices.
	// Source: assumed: a device is unknown mostly because its cookies were cleared,
	// at home; and phones move.
	NewPlaces, KnownNewPlaces = 0.35, 0.25
	// ColdFails is the share of honest failures on an unknown device in an
	// unfamiliar place: who fails is more often new there than who does not.
	// Source: assumed, after the same study.
	ColdFails = 0.35
	// Repeats is the share of honest failures that say the same wrong password
	// again. Source: assumed; SG counts such pairs for nothing because they are common.
	Repeats = 0.15
	// HonestUnknown, HonestNewNetwork, HonestBreached and HonestNewAccount are what
	// honest cold failures look like: of an account that does not exist (SG: a
	// third of causes are wrong names; most are caught before the login, assumed),
	// from a network of which nothing was seen for 14 days, with a password that
	// has leaked (Pal et al. 2019: of used passwords some 30 % are reused ones that
	// are in leaks), and the account's first of the day. Source of the second and
	// fourth: assumed.
	HonestUnknown    = 0.06
	HonestNewNetwork = 0.35
	HonestBreached   = 0.30
	HonestNewAccount = 0.60

	// StaleApps is the share of accounts a day on which an application goes on with
	// an old password, once in StaleEvery minutes. Source: SG, 0.04 %, 5 minutes, for a day.
	StaleApps, StaleEvery = 0.0004, 5.0

	// OfficeShare is the share of honest logins from shared addresses, of
	// OfficePeople each. Source: SG, 10 to 20 % behind proxies of 1,000 people.
	OfficeShare, OfficePeople = 0.15, 1000
	// StaleDay is how many times more applications are stale after everybody had to
	// choose a new password. Source: assumed.
	StaleDay = 10.0
	// Solves is the share of honest people who solve what they are asked.
	// Source: assumed; Bursztein et al. (2010) measured 71 to 93 % for pictures of
	// the harder kinds, at the first try.
	Solves = 0.85
	// Active is how many accounts share a day's logins: one a person and day.
	// Source: assumed; RBA has 3.3 million users with 80,000 attempts a day.
	Active = 0.8

	// Scan is what guesses in the background all day, of the mean honest attempts a
	// minute. Source: RBA, 8.9 % of the first 10,000 rows are from listed attackers.
	Scan = 0.089
	// ScanSources is from how many addresses. Source: assumed; Abdou et al.: 6,000 in a year.
	ScanSources = 400
	// ScanUnknown, ScanNewNetwork, ScanBreached and ScanNewAccount are what its
	// guesses look like. Source: assumed; dictionaries of common names and passwords.
	ScanUnknown    = 0.50
	ScanNewNetwork = 0.10
	ScanBreached   = 0.70
	ScanNewAccount = 0.50

	// What happens to a site beside attacks. Source: assumed, after the same study.

	// FlashCrowds a week; honest logins grow 2 to 8 fold for 15 to 60 minutes.
	FlashCrowds                 = 2.0
	FlashLeast, FlashMost       = 2.0, 8.0
	FlashShortest, FlashLongest = 15.0, 60.0
	// FlashNewDevices: of a crowd's logins more are from unknown devices, and of its
	// failures FlashColdFails are cold ones, for it is people who come rarely.
	FlashNewDevices, FlashColdFails = 0.25, 0.55
	// ResetDays a week; after a mailing honest failures grow 1.2 to 1.7 fold for two hours.
	ResetDays             = 1.0
	ResetLeast, ResetMost = 1.2, 1.7
	ResetMinutes          = 120.0
	// StaleDays a week on which everybody had to choose a new password.
	StaleDays = 0.25
	// Outages a week; the service behind answers nothing for 5 to 40 minutes, and
	// who is turned away tries OutageRetries times. Half of the outages are
	// reported as not checked, half as failures.
	Outages                       = 0.25
	OutageShortest, OutageLongest = 5.0, 40.0
	OutageRetries                 = 2.0
	// Offices a week in which an office comes in at nine after its addresses
	// changed: OfficePeople on familiar devices or not, within OfficeMinutes.
	Offices, OfficeMinutes = 2.0, 20.0
	// CarrierNATs a week in which a carrier puts CarrierShare of a day's honest
	// attempts behind CarrierAddresses that nobody has seen, within
	// CarrierMinutes, CarrierKnown of them on devices that are known.
	CarrierNATs                    = 1.0
	CarrierShare, CarrierAddresses = 1.0 / 150, 4
	CarrierMinutes, CarrierKnown   = 60.0, 0.5

	// Attacks.

	// StuffingSources and StuffingPerHour. Source: the attack that gave guardd its
	// reason: 8,000 addresses with four guesses an hour each.
	StuffingSources, StuffingPerHour = 8000, 4.0
	// StuffingSuccess is the share of guesses that are right. Source: NY AG 2022 and
	// vendors, 0.1 to 2 %.
	StuffingSuccess = 0.005
	// StuffingUnknown, StuffingNewNetwork, StuffingBreached and StuffingNewAccount.
	// Source: assumed; the list is another site's leak (95 % of it in public
	// indexes), tried once an account from rented home addresses, of whose networks
	// the site knows some.
	StuffingUnknown    = 0.50
	StuffingNewNetwork = 0.80
	StuffingBreached   = 0.95
	StuffingNewAccount = 0.98
	// StuffingUA is the share of guesses that claim the attacker's one user agent.
	// Source: F5 2023: 65 % of stuffing is plain HTTP with a copied header.
	StuffingUA = 0.65

	// SlowShare is low-and-slow's guesses, of honest attempts. Source: the SaaS case
	// of 34 a minute over 47 days, one or two an address, at 750,000 logins a day.
	SlowShare = 0.12

	// SprayPerMinute is the spraying of one password. Source: Microsoft: one
	// password over hundreds of thousands of accounts, one or two failures a tenant and day; assumed faster.
	SprayPerMinute = 6.0
	// SpraySuccess. Source: Microsoft, about 1 % of accounts without a blocklist.
	SpraySuccess = 0.01

	// CanaryEvery: after so many guesses the attacker signs in with one of
	// CanaryAccounts accounts of his own. Source: F5 2023 warns of them; the numbers
	// are the design's and assumed.
	CanaryEvery, CanaryAccounts = 3, 50
	// OnMinutes and OffMinutes of on-off. Source: the design.
	OnMinutes, OffMinutes = 10.0, 10.0
	// HammerPerMinute, from one address on one account. Source: assumed; hydra's
	// default of 16 tasks against a login of 0.2 s.
	HammerPerMinute = 60.0
	// BotnetPerMinute on one account, from StuffingSources addresses. Source:
	// GitHub 2013, 40,000 addresses guessed slowly at weak passwords.
	BotnetPerMinute = 100.0
	// RotationPerMinute, each guess from a /64 of its own in one /48.
	// Source: assumed; hosters hand out /48s.
	RotationPerMinute = 60.0
	// LockoutAccounts whose owners an attacker wants to shut out, each guessed at
	// LockoutPerMinute. Source: assumed.
	LockoutAccounts, LockoutPerMinute = 200, 1.0
)

// HonestUA are the shares of user agents of honest people. Source: StatCounter
// 2024 (Chrome 65, Safari 18, Edge 5, Firefox 3, Samsung 2, Opera 2 of 100),
// with a fifth in applications, assumed.
var HonestUA = map[string]float64{
	"app": 0.20, "chrome": 0.51, "safari": 0.15, "edge": 0.045, "firefox": 0.03,
	"samsung": 0.02, "opera": 0.02, "none": 0.005, "other": 0.02,
}

// ScanUA are those of the background scan. Source: F5 2023: two thirds of
// automation is plain HTTP, the rest claims to be a browser.
var ScanUA = map[string]float64{"script": 0.40, "none": 0.15, "bot": 0.05, "chrome": 0.40}

// classes are the names of user agents by their place in a bin.
var classes = escalation.UAClasses
