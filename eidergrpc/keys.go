package eidergrpc

// The metadata that callers and instances exchange, as package eiderhttp's headers do.
const (
	keyCaller      = "eider-caller"      // who calls
	keyTo          = "eider-to"          // id@incarnation of whom it is meant for
	keyLeaving     = "eider-leaving"     // of an answer: the incarnation that is leaving
	keyMisdirected = "eider-misdirected" // of an answer: who is here instead; nothing was done
)
