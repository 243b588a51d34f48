"""Why a cluster is as it is, in the order of cause: for `klm explain`, `klm status`, `klm trace` and the fleet page.

- `facts`: what is known of one cluster; `reading` reads it from KCP
- `chain`: the causes, pure; `tree`: all parts of a cluster; `moments`: what was done when; `marks`: pauses
- `command`: `klm explain` and `klm events`
"""
