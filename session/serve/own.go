package serve

var ownRoutes = []Route{}
