"""What changes objects on their way into a cluster, as injectors of sidecars and of defaults do."""

LABEL = "part"
"""Objects with this label are changed. Manifests give it to some of them, and users take it away."""
_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %(name)s.walks.example.com}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    objectSelector: {matchExpressions: [{key: %(label)s, operator: Exists}]}
    resourceRules:
    - {apiGroups: ["%(group)s"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%(resource)s]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: '%(change)s'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %(name)s.walks.example.com}
spec: {policyName: %(name)s.walks.example.com}
"""
_POD = "Object.spec.template.spec"
_SIDECAR = (
    f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {_POD}{{"
    f'containers: [{_POD}.containers{{name: "injected", image: "sidecar:1"}}]}}}}}}}}'
)
_DEFAULT = 'Object{data: {"injected": "by a policy", "a": "changed"}}'
_ANNOTATION = 'Object{metadata: Object.metadata{annotations: {"injected": "yes"}}}'
MUTATIONS = "---".join(
    _POLICY % {"name": name, "label": LABEL, "group": group, "resource": resource, "change": change}
    for name, group, resource, change in (
        ("sidecars", "apps", "deployments", _SIDECAR),
        ("defaults", "", "configmaps", _DEFAULT),
        ("annotations", "", "services", _ANNOTATION),
        ("annotations-of-things", "*", "things", _ANNOTATION),
    )
)
