// Receives Rightful's webhooks and keeps what each customer is entitled to. Go 1.19 or later, the standard library alone.
//
//	WEBHOOK_SECRET=whsec_… RIGHTFUL_URL=https://… RIGHTFUL_KEY=… go run receiver.go 8000
//
// The key needs the scope customers:read. Put a proxy that speaks TLS before it.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	largest   = 8 << 20 // bytes of a message
	tolerance = 5 * time.Minute
)

type entitlement struct {
	ID          string `json:"id"`
	GivesAccess bool   `json:"gives_access"`
	// What else you need of it; docs/http.md has it all.
}

type change struct {
	CustomerID  string        `json:"customer_id"`
	Environment string        `json:"environment"`
	Endpoint    string        `json:"endpoint"`
	Sequence    int64         `json:"sequence"`
	Before      []entitlement `json:"before"`
	After       []entitlement `json:"after"`
	Forgotten   bool          `json:"forgotten"`
}

type customer struct{ id, environment string }

type kept struct {
	endpoint string
	sequence int64
	held     []entitlement
}

func same(one, other []entitlement) bool {
	if len(one) != len(other) {
		return false
	}
	for i := range one {
		if one[i] != other[i] {
			return false
		}
	}
	return true
}

// turn is had by one message of a customer at a time.
type turn struct {
	sync.Mutex
	wanted int
}

type receiver struct {
	secret   []byte
	url, key string
	client   http.Client

	mutex sync.Mutex // of both maps, held for no longer than one look
	// In place of a table of your database. What was forgotten at the end of the process is read again, because to an
	// empty table every message comes after a hole.
	customers map[customer]kept
	turns     map[customer]*turn
}

// inTurn waits for a customer's turn; those of others go on meanwhile, however long a read takes.
func (r *receiver) inTurn(name customer) (end func()) {
	r.mutex.Lock()
	own := r.turns[name]
	if own == nil {
		own = &turn{}
		r.turns[name] = own
	}
	own.wanted++
	r.mutex.Unlock()
	own.Lock()
	return func() {
		own.Unlock()
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if own.wanted--; own.wanted == 0 {
			delete(r.turns, name)
		}
	}
}

// isSigned tells whether Rightful signed a message, and not long ago.
func (r *receiver) isSigned(header http.Header, body []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return false
	}
	code := hmac.New(sha256.New, r.secret)
	fmt.Fprintf(code, "%s.%s.", id, timestamp)
	code.Write(body)
	expected := code.Sum(nil)
	// While a secret is rolled there are two.
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		version, value, _ := strings.Cut(signature, ",")
		sent, err := base64.StdEncoding.DecodeString(value)
		if err == nil && version == "v1" && hmac.Equal(sent, expected) {
			return true
		}
	}
	return false
}

// now reads what a customer is entitled to.
func (r *receiver) now(of customer) ([]entitlement, error) {
	address := fmt.Sprintf("%s/v1/customers/%s/entitlements?environment=%s", r.url, url.PathEscape(of.id), of.environment)
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.key)
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s was answered %s", address, answer.Status)
	}
	var document struct {
		Entitlements []entitlement `json:"entitlements"`
	}
	err = json.NewDecoder(answer.Body).Decode(&document)
	return document.Entitlements, err
}

// take keeps what a message says.
func (r *receiver) take(c change) error {
	name := customer{c.CustomerID, c.Environment}
	defer r.inTurn(name)()
	r.mutex.Lock()
	known, isKnown := r.customers[name]
	r.mutex.Unlock()
	if !isKnown {
		known.endpoint = c.Endpoint
	}
	isSame := c.Endpoint == known.endpoint
	if isSame && c.Sequence == known.sequence && same(c.After, known.held) {
		return nil // It came before.
	}
	held, how := c.After, "kept"
	if !isSame || c.Sequence != known.sequence+1 || !same(c.Before, known.held) || c.Forgotten {
		// Whatever is not the next one tells that something was missed, came late, or began anew: so what holds now is read.
		var err error
		if held, err = r.now(name); err != nil {
			return err
		}
		how = "read"
	}
	r.mutex.Lock()
	if c.Forgotten && len(held) == 0 {
		delete(r.customers, name)
	} else {
		r.customers[name] = kept{c.Endpoint, c.Sequence, held}
	}
	r.mutex.Unlock()
	var open []string
	for _, one := range held {
		if one.GivesAccess {
			open = append(open, one.ID)
		}
	}
	sort.Strings(open)
	fmt.Printf("%s %s %d %s: %s\n", name.id, name.environment, c.Sequence, how, strings.Join(open, " "))
	return nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, largest))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		} else {
			w.WriteHeader(http.StatusBadRequest) // Half of a message is not taken; without a word, this would be 200.
		}
		return
	}
	if !r.isSigned(request.Header, body) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var message struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	err = json.Unmarshal(body, &message)
	if err == nil && message.Type == "entitlements.changed" {
		var c change
		if err = json.Unmarshal(message.Data, &c); err == nil {
			err = r.take(c)
		}
	}
	if err != nil {
		log.Print("not kept, and sent again: ", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(secret) == 0 || len(os.Args) != 2 {
		log.Fatal("usage: WEBHOOK_SECRET=whsec_… RIGHTFUL_URL=… RIGHTFUL_KEY=… receiver PORT")
	}
	r := &receiver{
		secret: secret, url: os.Getenv("RIGHTFUL_URL"), key: os.Getenv("RIGHTFUL_KEY"),
		client: http.Client{Timeout: 5 * time.Second}, customers: map[customer]kept{},
		turns: map[customer]*turn{},
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: r, ReadTimeout: 30 * time.Second}
	log.Fatal(server.ListenAndServe())
}
