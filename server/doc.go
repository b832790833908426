// Package server is the top of the product's module: the eider binary is in cmd/eider, its rooms in internal.
package server
