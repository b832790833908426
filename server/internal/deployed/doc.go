// Package deployed holds what stands in deploy/ to what is built: units, manifests, images, dashboards and alerts name
// flags, variables, endpoints and metrics that exist, and times that follow from the code's. It has tests alone.
package deployed
