"""What validating webhooks have in common: `review` reads AdmissionReviews and answers them."""
