package main

import "testing"

// TestCompiles holds the ten lines of the README to the API. The server's end-to-end tests run them.
func TestCompiles(*testing.T) { _ = main }
