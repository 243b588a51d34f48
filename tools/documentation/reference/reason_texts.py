"""What each condition and each reason means to those who read it, and what they can do."""

from collections.abc import Mapping

Texts = Mapping[str, tuple[str, str]]

CONDITIONS: tuple[tuple[str, str, str], ...] = (
    ("Kyma", "Ready", "all of the others; the reason is that of the worst cause"),
    ("Kyma", "SKRReachable", "whether the cluster can be accessed, and accepts the CRDs"),
    ("Kyma", "CRDsSync", "whether the cluster has the CRDs of Kymas and of the catalog"),
    ("Kyma", "Modules", "whether the modules of this Kyma are ready or removed"),
    ("Kyma", "ModuleCatalog", "whether the cluster has its module catalog"),
    ("Kyma", "SKRWebhook", "whether the Watcher works and its events arrive"),
    ("Kyma", "SKRImagePullSecretSync", "with `--skr-image-pull-secret` alone: whether the cluster has the Secret"),
    ("Kyma", "MandatoryModules", "present only since the Manifests of mandatory modules could not be decided on"),
    ("Manifest", "Resources", "whether the module's objects are applied, or removed ones deleted"),
    ("Manifest", "ModuleCR", "whether the default Module CR was created"),
    ("Manifest", "Installation", "whether the module works: its manager and its default Module CR"),
    ("Manifest", "Ready", "the condition that determines the state"),
    ("SyncResource", "Valid", "whether the text holds Kubernetes objects that the module may have"),
    ("SyncResource", "Applied", "whether the objects are applied"),
    ("SyncResource", "Ready", "whether the objects are ready"),
    ("ModuleConfig", "Synced", "whether it has the text of the Module CR"),
    ("ModuleConfig", "Complete", "of one ModuleConfig of a module: whether every Module CR has a ModuleConfig"),
    ("ModuleConfig", "Rendered", "written by the Module Manager: whether it made objects of the text"),
    ("ModuleConfig", "Ready", "written by the Module Manager: whether the change is in force"),
    ("Module CR", "Ready", "whether the version that was written last is in force"),
    ("ModuleTemplate", "DescriptorPinned", "whether the tag still names the descriptor that was found first"),
    ("ModuleTemplate", "LinkPinned", "whether the link to the objects still has the content that was seen first"),
    ("ModuleTemplate", "DescriptorVerified", "whether the descriptor is signed as the ModulePolicy requires"),
    ("ModuleTemplate", "Consistent", "only while it is False: whether its parts say the same module and version"),
    ("ModuleRollout", "Progressing", "whether clusters get the version, or soak"),
    ("ModuleRollout", "Halted", "whether something stops it until somebody acts"),
    ("ModuleRollout", "Completed", "whether all waves are completed"),
    ("Watcher", "Ready", "whether every cluster has the webhook of this Watcher CR"),
    ("Watcher", "VirtualService", "with Istio alone: whether the gateway routes the events"),
)
"""Resource, type of the condition, and what it says."""

NONE = ""
WAIT = "Wait; it is retried."

REASONS: Mapping[str, Texts] = {
    "Of a Kyma": {
        "Ready": ("The Kyma and all its parts are ready.", NONE),
        "Reachable": ("The cluster was reached.", NONE),
        "Synced": ("The module catalog, or the Secret, is in the cluster.", NONE),
        "Syncing": ("The CRDs are not in the cluster yet.", WAIT),
        "ModulesReady": ("All modules are ready.", NONE),
        "ModulesNotReady": ("A module is not ready; its cause is in `status.modules[]`.", "`klm explain KYMA`"),
        "ModuleError": ("A module is in state Error.", "Read the cause in `status.modules[]`, or `klm explain`."),
        "ModuleWarning": ("A module is in state Warning.", "Read the cause in `status.modules[]`."),
        "ModuleProcessing": ("A module is being installed or changed.", WAIT),
        "ModuleDeleting": ("A module is being removed.", WAIT),
        "ModulesRemoved": ("The Kyma is being deleted, and all modules are removed.", NONE),
        "Removed": ("This part is removed from the cluster.", NONE),
        "Removing": ("This part is being removed; the message says what it waits for.", WAIT),
        "Deleting": ("It is being deleted; the message says what that waits for.", WAIT),
        "DeletionStuck": (
            "The deletion takes longer than 10 minutes.",
            "Delete what the message names, or set `--enable-purge-finalizer`.",
        ),
        "DeletionHeld": (
            "Very many deletions began at once, or one change would remove a module from very many clusters.",
            "[Runbook](../runbooks/lifecycle-manager-deletions-held.md); `klm continue`.",
        ),
        "WatcherPending": ("The Watcher is not installed yet.", WAIT),
        "CatalogPending": ("The module catalog is not in the cluster yet.", WAIT),
        "CatalogSyncFailed": ("The cluster refuses an object of the catalog.", "Read the message."),
        "ImagePullSecretMissing": ("The Secret of `--skr-image-pull-secret` is not in kcp-system.", "Create it."),
        "ImagePullSecretRefused": (
            "The cluster has a Secret of that name from somebody else.",
            "Delete or rename the Secret in the cluster.",
        ),
        "ManifestsWritten": ("The Manifests of mandatory modules are written.", NONE),
        "InternalError": (
            "An unforeseen exception: a mistake in the program. It is retried.",
            "Read the log of the replica, and report it.",
        ),
    },
    "Of access to a cluster": {
        "AccessSecretMissing": ("No Secret has the labels of this Kyma.", "Create the Secret that the message names."),
        "AccessSecretIncomplete": ("The Secret has no kubeconfig.", "Put it under the key `config`."),
        "AccessSecretUnusable": (
            "The kubeconfig cannot be read, or is of a kind that is refused.",
            "Use a kubeconfig with a token or certificate and the CA, without exec plugins.",
        ),
        "SKRClaimed": ("The Secret leads to the cluster of another Kyma.", "Correct the Secret, or delete one Kyma."),
        "ClusterUnreachable": ("The cluster does not answer.", "Check API server and network; it is probed."),
        "SKRUnauthorized": ("The cluster refuses the credentials.", "`klm join` renews them."),
        "SKRForbidden": ("The credentials lack a right.", "Grant what the message names: `klm check`."),
        "SKRRequestFailed": ("The cluster refuses a request.", "Read the message: it is the API server's."),
        "SKRConversionFailed": (
            "The conversion webhook of a CRD fails: its objects can be neither read nor deleted.",
            "Have the service of the webhook run again, or set `spec.conversion.strategy` of the CRD to `None`.",
        ),
        "SKRObjectUnreadable": ("An object in the cluster cannot be read.", "Correct or delete the object."),
        "TokenNotRenewed": (
            "The token in the access Secret expires soon, and could not be renewed.",
            "Read the note; `klm join` writes another one.",
        ),
    },
    "Of a module in a Kyma": {
        "ModuleUnmanaged": ("`managed: false`: it stays installed as it is.", "Set `managed: true` to update it."),
        "NamespaceNotWritable": (
            "Nothing can be written in the namespace that the ModulePolicy names.",
            "Create the namespace and its roles: install the module's chart.",
        ),
        "ModuleNotFound": ("There is no such module.", "Choose one of the module catalog."),
        "ChannelNotFound": ("The module has no such channel.", "The message lists those that it has."),
        "ModuleTemplateNotFound": ("The version has no ModuleTemplate.", "The message lists those that there are."),
        "ModuleMandatory": ("It is installed everywhere and cannot be chosen.", "Remove it from `spec.modules`."),
        "ModuleBeta": ("It is for Kymas with the label `beta`.", "Ask the operators for the label."),
        "ModuleInternal": ("It is for Kymas with the label `internal`.", "Remove it from `spec.modules`."),
        "ModuleNotForThisCluster": (
            "The `kymaSelector` of its ModuleReleaseMeta does not match; an installed module is uninstalled.",
            "Remove it, or ask the operators for the labels.",
        ),
        "DescriptorUnreadable": (
            "The component descriptor is invalid or cannot be found.",
            "The module team corrects the ModuleTemplate; check `--oci-registry-host`.",
        ),
        "DescriptorUnverified": (
            "The descriptor is not signed as the ModulePolicy requires.",
            "Sign it, or correct `spec.verificationSecret`.",
        ),
        "DowngradeNotAllowed": (
            "The version is lower than the installed one, which stays.",
            "Remove and add the module.",
        ),
        "RolloutPending": ("A new version is rolled out; it is not this Kyma's turn yet.", WAIT),
        "WaitsForUser": (
            "A new version is available, and `upgradeStrategy` is manual.",
            "Set it to automatic, or wait for the deadline in `status.modules[].upgradeBy`.",
        ),
        "WaitsForMaintenance": (
            "The version has a downtime, and no maintenance window is open.",
            "Wait, or set `spec.skipMaintenanceWindows`.",
        ),
        "Installing": ("The module is being installed.", WAIT),
        "Updating": ("The module is being updated.", WAIT),
        "NothingToInstall": ("The version has no objects in the cluster.", NONE),
        "KymaCreatedAgain": (
            "The Kyma CR in the cluster was gone, with the list of modules that users had chosen.",
            "Find out who deleted it, or to which cluster the access Secret leads; choose the modules again.",
        ),
        "ModuleNotWritten": ("The Manifest could not be written.", "Read the message: it is the API server's."),
        "ModuleReady": ("The module works.", NONE),
        "ModuleRemoved": ("The module is removed.", NONE),
        "MoreModules": ("More modules changed than have Events.", "Read `status.modules[]`."),
        "CannotBeInstalled": ("A mandatory version has no usable ModuleTemplate.", "Apply the ModuleTemplate."),
    },
    "Of a rollout": {
        "RolloutStarted": ("A channel has another version, which is rolled out now.", NONE),
        "RolloutStrategyMissing": (
            "The ModuleReleaseMeta names a RolloutStrategy that does not exist; no cluster gets the version.",
            "Create the strategy, or correct the annotation.",
        ),
        "Soaking": ("All clusters of the wave have the version; the soak time is not over.", WAIT),
        "ApprovalRequired": ("The next wave needs an approval.", "`klm rollout approve`"),
        "PausedByOperator": ("`spec.paused` is set.", "`klm rollout resume`"),
        "HaltedByOperator": ("`spec.halted` is set.", "`klm rollout resume`"),
        "TooManyFailures": (
            "More clusters of a wave failed than its strategy accepts.",
            "Read `status.failedClusters`; then `klm rollout resume`, `klm rollout undo`, or release another version.",
        ),
        "ModuleCannotGoBack": (
            "The ModuleTemplate that is installed forbids lower versions.",
            "Release a higher version.",
        ),
        "NotHalted": ("Nothing stops the rollout.", NONE),
        "AllWavesCompleted": ("All waves are completed.", NONE),
        "Superseded": ("Another version is rolled out instead.", NONE),
        "DeadlineExceeded": (
            "The module was not Ready with the version by the deadline of its wave.",
            "`klm explain KYMA`",
        ),
    },
    "Of the Watcher": {
        "WatcherReady": ("It works, and its events arrive.", NONE),
        "WatcherStarting": ("It is installed; its Pods are not ready yet.", "Look at its Pods in kyma-system."),
        "NoWatcherEvents": (
            "It was installed and never sent an event.",
            "[Runbook](../runbooks/lifecycle-manager-watcher-silent.md)",
        ),
        "WatcherSilent": (
            "It sent events, and sends none any more.",
            "[Runbook](../runbooks/lifecycle-manager-watcher-silent.md)",
        ),
        "EventPathBroken": (
            "It sends heartbeats, but the API server does not send it changes.",
            "[Runbook](../runbooks/lifecycle-manager-watcher-silent.md)",
        ),
        "CertificateRenewalOverdue": (
            "Its certificate should have been renewed.",
            "[Runbook](../runbooks/lifecycle-manager-certificate-not-renewed.md)",
        ),
        "CertificatePending": (
            "Its certificate is not issued yet.",
            "Look at the Certificate of cert-manager or Gardener.",
        ),
        "CertificatesRevoked": ("Its certificates were revoked; it gets another one.", WAIT),
        "CertificateContended": ("Another replica issues its certificate.", WAIT),
        "NameReserved": (
            "The control plane itself has this name.",
            "Correct the label `runtime-id`, or `skr-domain`.",
        ),
        "NameRefused": (
            "The runtime id or domain fits into no certificate.",
            "Correct the label `runtime-id`, or `skr-domain`.",
        ),
        "InForce": ("Every cluster has the webhook of this Watcher CR.", NONE),
        "RollingOut": ("Clusters are getting the webhook.", WAIT),
        "Invalid": ("No API server would accept it in a webhook.", "Correct the field that the message names."),
        "Configured": ("The VirtualService routes its events.", NONE),
        "GatewayNotFound": ("No Gateway has the labels in `spec.gateway`.", "Correct the selector or the Gateway."),
        "GatewayWithoutHosts": ("The Gateway has no hosts.", "Give it the host of the event address."),
        "NameTaken": ("A VirtualService of that name belongs to somebody else.", "Delete it."),
    },
    "Of a Manifest": {
        "Applied": ("The objects are applied.", NONE),
        "ApplyFailed": (
            "The API server of the cluster refuses an object.",
            "Read the message: it is the API server's.",
        ),
        "ObjectsTerminating": ("Removed objects have finalizers.", "Find who has to remove the finalizers."),
        "ObjectsInUse": (
            "A removed CRD has objects of users, or a removed Namespace contains some.",
            "Users delete these objects.",
        ),
        "ObjectsLeft": (
            "Objects stay in the cluster: they existed before, or are Namespaces that contain objects of others.",
            "Users delete them if they don't need them.",
        ),
        "KymaUnnamed": ("The Manifest has no label with its Kyma.", "Delete it if nobody needs it."),
        "Orphaned": ("Its Kyma does not list the module.", "Delete it if nobody needs it."),
        "Created": ("The default Module CR was created.", NONE),
        "Refused": ("The default Module CR, or a Module CR, is refused.", "Correct what the message names."),
        "ModuleCRRefused": ("The cluster refuses the default Module CR.", "The module team corrects `spec.data`."),
        "ModuleCR": ("With a state after it: the state that the default Module CR reports.", "Read its status."),
        "ManagerNotReady": ("The module's Deployment or StatefulSet is not ready.", "Look at its Pods."),
        "ManagerFailed": ("The module's Deployment makes no progress.", "Look at its Pods and their Events."),
        "ManagerMissing": ("The manager that the template names is not among the objects.", "Correct `spec.manager`."),
        "ModuleCRsInUse": ("Module CRs of users block the removal.", "Users delete these Module CRs."),
        "ObjectContested": (
            "Somebody changes an object back again and again; the Event names the field manager.",
            "Let one of both have the field.",
        ),
    },
    "Of a ModuleConfig, a SyncResource and a Module CR": {
        "Read": ("The Module CR was read.", NONE),
        "ModuleCRTooLarge": (
            "The Module CR exceeds the [limits](../kymas.md#limits-of-module-crs).",
            "Make it smaller.",
        ),
        "ModuleCRUnreadable": ("The Module CR cannot be read, or has fields of other types.", "Correct it."),
        "QuotaExceeded": ("The cluster has more Module CRs than allowed.", "Delete some; see `--max-module-crs`."),
        "WithinQuota": ("Every Module CR is synchronized.", NONE),
        "TemplateUnreadable": ("The default Module CR in the ModuleTemplate cannot be read.", "Correct `spec.data`."),
        "Rendered": ("The Module Manager made objects of the text.", NONE),
        "RenderingFailed": ("The module's function raised an exception or timed out.", "Read the manager's log."),
        "SyncFailed": ("The ModuleConfig could not be turned into objects.", "Read the message."),
        "ObjectsRefused": (
            "A returned object is incomplete or a duplicate, or all are too large.",
            "Correct the module; [sizes](../module-managers.md#size).",
        ),
        "StatusRefused": ("The returned fields of the status are invalid or too large.", "Correct the module."),
        "SyncResourceRefused": ("The API server refuses the SyncResource.", "Read the message."),
        "NotWritten": ("The SyncResource is not written yet.", WAIT),
        "NotApplied": ("The SyncResource is not applied yet.", WAIT),
        "WaitingForModuleManager": ("The Module Manager has not answered this version yet.", "Is the manager running?"),
        "Applying": ("The objects are being applied.", WAIT),
        "Waiting": ("The change is under way; the Event says what it waits for.", WAIT),
        "ObjectsNotReady": ("An applied object is not ready.", "Look at the objects that the message names."),
        "ObjectsInUse": (
            "A removed CRD has objects of users, or a removed Namespace contains some.",
            "Users delete these objects.",
        ),
        "ObjectsLeft": (
            "Objects stay in the cluster: they existed before, or are Namespaces that contain objects of others.",
            "Users delete them if they don't need them.",
        ),
        "ObjectsReady": ("All objects are ready.", NONE),
        "Valid": ("The text holds Kubernetes objects.", NONE),
        "InvalidResource": ("The text of the SyncResource holds no valid objects.", "The module team corrects it."),
        "PolicyViolation": ("An object violates the ModulePolicy.", "Change the object or the ModulePolicy."),
        "TooManyObjects": ("The SyncResource has too many objects.", "Split it."),
        "TextTooLarge": (
            "The text takes more than 1 MiB in etcd, or leaves no room for the status.",
            "Move objects to the module's manifest, or to another SyncResource.",
        ),
        "TooManySyncResources": (
            "The module has too many SyncResources for this Kyma.",
            "100 are allowed, the oldest count: delete some.",
        ),
        "Conflict": ("Another field manager has a field of an object.", "Let one of both have the field."),
        "Forbidden": ("The credentials of the cluster lack a right for an object.", "Grant what the message names."),
        "ObjectsForbidden": (
            "The text names an object that is Lifecycle Manager's own.",
            "The module team removes it.",
        ),
        "ClusterNotAccessible": ("The cluster cannot be accessed.", "Operators: `klm explain KYMA`."),
        "KymaDeleting": ("The Kyma is being deleted.", NONE),
        "KymaNotFound": ("There is no such Kyma.", "Correct `spec.kyma`."),
        "WrongNamespace": ("It is not in the module's own namespace.", "Write it where the ModulePolicy says."),
        "ModuleNotEnabled": ("The Kyma has not enabled the module.", "Delete the SyncResource, or enable the module."),
        "ModulesNotProtected": (
            "The admission policy that separates modules is not in force.",
            "[Runbook](../runbooks/lifecycle-manager-modules-unprotected.md)",
        ),
        "FieldManagerConflict": (
            "An operator in the cluster writes the same fields of the status, and keeps them.",
            "Let one of both write the status.",
        ),
        "ModuleCRStatusNotWritten": ("The cluster refuses the status of the Module CR.", "Grant the right."),
        "ModuleStatusRefused": ("Fields of the Module Manager do not fit into the CRD.", "Correct the module."),
    },
    "Of a ModuleTemplate and of the CA": {
        "DescriptorPinned": ("The tag names the descriptor that was found first.", NONE),
        "TagMoved": ("The tag names another descriptor now; the first is used.", "Publish another version."),
        "LinkPinned": ("The link has the content that was seen first.", NONE),
        "LinkUnreadable": ("The link to the objects can't be read.", "Correct it, or make its server answer."),
        "DescriptorVerified": ("The component is signed by a trusted key.", NONE),
        "Contradictory": (
            "The parts of the ModuleTemplate say different modules or versions; nobody gets it.",
            "Correct what the message names.",
        ),
        "CAAnnounced": ("Another CA is trusted too, and issues once every cluster trusts it.", NONE),
        "CASpread": ("Every cluster has the CAs of this phase.", NONE),
        "CASwitched": ("The new CA issues; the former is trusted while it has certificates.", NONE),
        "CAReplaced": ("The former CA is not trusted any more.", NONE),
    },
}
"""Reason, what is found, and what to do, by where it is read."""

SOURCE_HELP: Mapping[str, str] = {
    "SourceInvalid": "The module team names a repository and a digest.",
    "SourceNotAllowed": "Add the host to `--allowed-source-hosts`, or move the module.",
    "LinkChanged": "Publish the content as another version.",
    "SourceAwaited": WAIT,
    "SourceUnreachable": "Check the registry, DNS and `networkPolicy.extraEgress`.",
    "RegistryBusy": WAIT,
    "RegistryAccessRefused": "Check the Secret with the registry's credentials.",
    "CredentialsInvalid": "Create or correct the Secret.",
    "LayerNotFound": "Push the layer, or grant the credentials access.",
    "DigestMismatch": "Push the layer again; the registry or what is between is faulty.",
    "LayerTruncated": "Push the layer again.",
    "LayerTooLarge": "Split the module.",
    "ArchiveUnsafe": "Package the module again: `klm module package`.",
    "ObjectsInvalid": "The module team corrects the objects: `klm module validate`.",
    "ObjectsForbidden": "The module team removes the object.",
    "DataNotInjected": "Create the Secret in the control plane, or correct the annotation.",
}
"""What to do where a module's objects cannot be fetched or are refused."""

NOT_REASONS = frozenset(
    {
        *("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
        *("AppArmor", "Capabilities", "HostProcess", "Seccomp", "Sysctls"),
        *("CustomResourceDefinition", "Secret", "ValidatingWebhookConfiguration"),
        *("Incomplete", "Replayed", "Revoked"),  # titles of refused events
        "NotReported",  # of a Kyma without a condition
        "ModuleCRCreated",  # a condition of the Lifecycle Manager in Go
        "SourceError",
    }
)
"""Words of the source that are no reasons although they stand where one could."""
