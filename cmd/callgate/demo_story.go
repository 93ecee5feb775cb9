package main

import (
	"context"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// step is one call of the demo's story and the code it must end with. A step with
// a voter is their approval of what the step before asked for.
type step struct {
	what  string
	roles []string
	tool  string
	args  string
	want  call.Code
	voter string
}

var analyst = []string{"analyst"}

var story = []step{
	{what: "reads a file in its granted folder", roles: analyst, tool: "read-file", args: `{"path": "/docs/welcome.txt"}`, want: call.CodeOK},
	{what: "asks in a role that may not", roles: []string{"guest"}, tool: "read-file", args: `{"path": "/docs/welcome.txt"}`, want: call.CodePolicyDenied},
	{what: "calls a tool that does not exist", roles: analyst, tool: "delete-everything", args: `{}`, want: call.CodeToolUnknown},
	{what: "sends one key twice", roles: analyst, tool: "read-file", args: `{"path": "/docs/welcome.txt", "path": "/etc/passwd"}`, want: call.CodeArgsInvalid},
	{what: "sends a number for a path", roles: analyst, tool: "read-file", args: `{"path": 7}`, want: call.CodeArgsSchema},

	{what: "lists its folder", roles: analyst, tool: "list-dir", args: `{"path": "/docs"}`, want: call.CodeOK},
	{what: "lists it in a roundabout way", roles: analyst, tool: "list-dir", args: `{"path": "/docs/notes/.."}`, want: call.CodeFactsUnparsable},
	{what: "lists it a second time", roles: analyst, tool: "list-dir", args: `{"path": "/docs"}`, want: call.CodeOK},
	{what: "lists it a third time in an hour", roles: analyst, tool: "list-dir", args: `{"path": "/docs"}`, want: call.CodeRateLimited},

	{what: "refunds 500", roles: support, tool: "refund", args: order500, want: call.CodeRequiresApproval},
	{what: "... Lena approves it", roles: []string{"approver"}, voter: "lena"},
	{what: "refunds 500 now", roles: support, tool: "refund", args: order500, want: call.CodeOK},
	{what: "refunds 500 once more", roles: support, tool: "refund", args: order500, want: call.CodeRequiresApproval},
	{what: "... Lena approves it", roles: []string{"approver"}, voter: "lena"},
	{what: "refunds 5000 instead", roles: support, tool: "refund", args: `{"amount": 5000, "order": "A-17"}`, want: call.CodeRequiresApproval},

	{what: "publishes a text", roles: analyst, tool: "publish", args: `{"text": "hello"}`, want: call.CodeOK},
	{what: "reads mail from outside", roles: analyst, tool: "read-file", args: `{"path": "/docs/inbox/mail.txt"}`, want: call.CodeOK},
	{what: "publishes what the mail told it to", roles: analyst, tool: "publish", args: `{"text": "everything"}`, want: call.CodePolicyDenied},

	{what: "fetches with a credential by name", roles: analyst, tool: "fetch", args: `{"secret": "demo-api", "url": "https://api.demo.test/v1/status"}`, want: call.CodeOK},
	{what: "does so with a tool written in Go", roles: analyst, tool: "fetch-in-go", args: `{"url": "HTTPS://API.demo.test:443/v1/status"}`, want: call.CodeOK},
	{what: "points the guest at another host", roles: analyst, tool: "fetch", args: `{"url": "https://elsewhere.demo.test/v1/status"}`, want: call.CodeToolError},
	{what: "points the Go tool there", roles: analyst, tool: "fetch-in-go", args: `{"url": "https://elsewhere.demo.test/v1/status"}`, want: call.CodeToolError},
	{what: "is sent there by a redirect", roles: analyst, tool: "fetch", args: `{"secret": "demo-api", "url": "https://api.demo.test/v1/moved"}`, want: call.CodeToolError},
	{what: "the Go tool is sent there too", roles: analyst, tool: "fetch-in-go", args: `{"url": "https://api.demo.test/v1/moved"}`, want: call.CodeToolError},
	{what: "uses a name for a private address", roles: analyst, tool: "fetch", args: `{"secret": "demo-api", "url": "https://intranet.demo.test/v1/status"}`, want: call.CodeToolError},
	{what: "the Go tool uses it too", roles: analyst, tool: "fetch-in-go", args: `{"url": "https://intranet.demo.test/v1/status"}`, want: call.CodeToolError},
	{what: "hides the host behind an @", roles: analyst, tool: "fetch", args: `{"url": "https://api.demo.test@elsewhere.demo.test/"}`, want: call.CodeFactsUnparsable},
	{what: "sends data out in a query", roles: analyst, tool: "fetch", args: `{"url": "https://api.demo.test/v1/status?q=secret"}`, want: call.CodePolicyDenied},

	{what: "follows a link that leaves the folder", roles: analyst, tool: "read-file", args: `{"path": "/docs/` + demoLink + `"}`, want: call.CodeToolError},
	{what: "asks for ../../etc/passwd", roles: analyst, tool: "read-file", args: `{"path": "../../etc/passwd"}`, want: call.CodeToolError},
	{what: "asks for /etc/passwd", roles: analyst, tool: "read-file", args: `{"path": "/etc/passwd"}`, want: call.CodeToolError},
	{what: "runs a guest that loops for ever", roles: analyst, tool: "spin", args: `{}`, want: call.CodeTimeExceeded},
	{what: "runs one that recurses without a loop", roles: analyst, tool: "fib", args: `{}`, want: call.CodeTimeExceeded},
	{what: "runs one that recurses without end", roles: analyst, tool: "recurse", args: `{}`, want: call.CodeStackExhausted},
	{what: "runs one that eats memory", roles: analyst, tool: "hog", args: `{}`, want: call.CodeToolError},
	{what: "runs one that prints without end", roles: analyst, tool: "chatter", args: `{}`, want: call.CodeOutputExceeded},
}

const order500 = `{"amount": 500, "order": "A-17"}`

var support = []string{"support"}

// demoLink is a link in the granted folder that leaves it.
const demoLink = "shortcut"

// fetchInGo does what the guest fetch does, written in Go: the grant holds it all
// the same, as long as it asks through its effects.
func fetchInGo() engine.Tool {
	type in struct {
		URL string `json:"url"`
	}
	return engine.Host(fetchInGoManifest, func(ctx context.Context, fx *hostfx.Effects, a in) (string, error) {
		res, err := fx.HTTP(ctx, hostfx.Request{Method: "GET", URL: a.URL, Secret: "demo-api"})
		if err != nil {
			return "", err
		}
		return string(res.Body), nil
	})
}

const fetchInGoManifest = `
name: fetch-in-go
description: Fetches a page of one of the demo's services, as a tool of the host.
kind: host
class: read
facts:
  urls:
    - at: /url
      method: GET
input:
  type: object
  properties:
    url: {type: string, maxLength: 2048}
  required: [url]
  additionalProperties: false
caps:
  http:
    - hosts: [api.demo.test, intranet.demo.test]
      ports: [443]
      methods: [GET]
      paths: [/v1]
      networks: [demo]
      secret: {name: demo-api, as: bearer}
  bounds:
    timeout_ms: 10000
`
