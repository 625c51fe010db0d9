/** The events of artifacts, each with its purpose. Production, access and retention are audited. */
import { domainEventLog } from '#store'

const artifactEventTypes = {
  artifact_created: 'audit',
  artifact_published: 'audit',
  artifact_withdrawn: 'audit',
  artifact_held: 'audit',
  artifact_released: 'audit',
  status_changed: 'event',
} as const
export type ArtifactEventType = keyof typeof artifactEventTypes

export const artifactLog = domainEventLog(artifactEventTypes)
