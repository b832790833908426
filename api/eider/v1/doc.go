// Package eiderv1 is the native protocol as generated from eider.proto; `make generate` makes it anew.
package eiderv1
