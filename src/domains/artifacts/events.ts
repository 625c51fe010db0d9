/** The events of artifacts, each with its purpose. Production, access and retention are audited. */
import { domainEventLog } from '#store'

const artifactEventTypes = {
  /** An artifact was written. */
  artifact_created: 'audit',
  /** It was published to a destination. */
  artifact_published: 'audit',
  /** It was withdrawn from a destination. */
  artifact_withdrawn: 'audit',
  /** A hold keeps it from retention and erasure. */
  artifact_held: 'audit',
  /** A hold on it ended. */
  artifact_released: 'audit',
  /** An artifact got another status. */
  status_changed: 'event',
} as const
export type ArtifactEventType = keyof typeof artifactEventTypes

export const artifactLog = domainEventLog(artifactEventTypes)
