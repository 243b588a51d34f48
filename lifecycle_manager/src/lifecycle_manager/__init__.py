"""The Lifecycle Manager: keeps the modules of every user cluster as their users want them.

One process in the control plane (KCP) manages thousands of user clusters (SKRs) and is the only component with access
to them. Each domain has a folder with the same files: `controller` declares what triggers it, `snapshot` is what it
reads, `plan` decides by pure functions, `apply` carries the decision out, `status` is what it reports. Domains do not
import each other; they meet in resources and in signals.

Start reading at `app`, which composes them.
"""
