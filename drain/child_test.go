package drain

func child(string) {}
