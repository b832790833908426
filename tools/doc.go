// Package tools is the top of the module that builds and checks the others: protogen and mutate, and the pinned plugins.
package tools
