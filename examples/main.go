// Go's standard library. usage: go run main.go [URL]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
)

type matrix [][]float32

type reply struct {
	Output                matrix
	Status                int
	Code, Pointer, Detail string
}

func attention(url string, q, k, v matrix) (r reply, err error) {
	body, _ := json.Marshal(map[string]matrix{"q": q, "k": k, "v": v})
	response, err := http.Post(url+"/attention", "application/json", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	if err = json.NewDecoder(response.Body).Decode(&r); err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("%d %s at %s: %s", r.Status, r.Code, r.Pointer, r.Detail)
	}
	return r, err
}

func main() {
	url := "http://127.0.0.1:8080"
	if len(os.Args) > 1 {
		url = os.Args[1]
	} else if set := os.Getenv("ATTENTIOND_URL"); set != "" {
		url = set
	}
	// The worked example: two queries, two keys and two values of three columns.
	r, err := attention(url, matrix{{2, 0, 1}, {0, 2, 1}}, matrix{{1, 1, 0}, {0, 1, 1}}, matrix{{1, 0, 1}, {0, 1, 0}})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range r.Output {
		fmt.Printf("%.6f %.6f %.6f\n", row[0], row[1], row[2])
	}
	// The query has two columns, but the key has three.
	if _, err = attention(url, matrix{{2, 0}}, matrix{{1, 1, 0}}, matrix{{1, 0, 1}}); err != nil {
		fmt.Println(err)
	}
}
