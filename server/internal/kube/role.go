package kube

import (
	_ "embed"
)

// Role is what lets a pod ask for slices, and for nothing else: a Role and a RoleBinding, to be applied with kubectl.
//
//go:embed role.yaml
var Role string
