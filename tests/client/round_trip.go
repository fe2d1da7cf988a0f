// Reads bodies by their models and writes them again; prints what was refused.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

type sent struct {
	Name, Schema string
	Body         json.RawMessage
}

func main() {
	raw, _ := os.ReadFile(os.Args[1])
	var bodies []sent
	if err := json.Unmarshal(raw, &bodies); err != nil {
		panic(err)
	}
	kept := map[string]interface{}{}
	for _, one := range bodies {
		made := models[one.Schema]()
		if err := json.Unmarshal(one.Body, made); err != nil {
			fmt.Fprintln(os.Stderr, one.Name, err)
			continue
		}
		kept[one.Name] = made
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
