"""Lists of hostile inputs over every public function and command, tried in forked children; `make abuse` runs all."""
