package serve

import "slices"

// Routes returns the routes that are served.
func (sv *Server) Routes() []Route { return slices.Clone(sv.routes) }
