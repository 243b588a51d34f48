"""Istio in a control plane of the tests: its kinds as far as we use them, without Istio itself."""

CRDS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gateways.networking.istio.io}
spec:
  group: networking.istio.io
  names: {kind: Gateway, listKind: GatewayList, plural: gateways, singular: gateway}
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                selector: {type: object, additionalProperties: {type: string}}
                servers:
                  type: array
                  items:
                    type: object
                    required: [port]
                    properties:
                      hosts: {type: array, items: {type: string}}
                      port:
                        type: object
                        required: [number, protocol, name]
                        properties:
                          number: {type: integer, maximum: 4294967295, minimum: 0}
                          protocol: {type: string}
                          name: {type: string}
                      tls: {type: object, properties: {mode: {type: string}, credentialName: {type: string}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualservices.networking.istio.io}
spec:
  group: networking.istio.io
  names: {kind: VirtualService, listKind: VirtualServiceList, plural: virtualservices, singular: virtualservice}
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                gateways: {type: array, items: {type: string}}
                hosts: {type: array, items: {type: string}}
                http:
                  type: array
                  items:
                    type: object
                    properties:
                      name: {type: string}
                      match:
                        type: array
                        items: {type: object, properties: {uri: {type: object, properties: {prefix: {type: string}}}}}
                      route:
                        type: array
                        items:
                          type: object
                          required: [destination]
                          properties:
                            destination:
                              type: object
                              required: [host]
                              properties:
                                host: {type: string}
                                port: {type: object, properties: {number: {type: integer, maximum: 4294967295}}}
"""
