module github.com/eiderhq/eider/server

go 1.26

require github.com/eiderhq/eider v0.0.0-00010101000000-000000000000

replace github.com/eiderhq/eider => ../
