// Package interop shows that programs in other languages, which know nothing of Eider, lose nothing when `eider run`
// restarts them. Its tests need node, python3, a JDK and Maven: `make interop` installs what is missing.
package interop
