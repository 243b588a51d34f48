"""The client of one API server.

Start with `client.Client`, the verbs. Below it: `transport` (one pooled session, limits, retries), `json_limits`
(bounds on bytes before they are decoded), `decoding` (bytes to typed objects), `discovery` (kinds to resources),
`kubeconfig` (where the server is and what a kubeconfig may ask for), `proxies` (how it is reached), `credentials`,
`plugins` and `tls` (who we are).
"""
