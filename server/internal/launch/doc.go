// Package launch is the commands that run a program and have it leave: run, and leave. They need no server, and pull in
// neither etcd nor what measures one, so that a small binary has them too.
package launch
