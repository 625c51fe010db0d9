/**
 * The shipped task Publish Artifact. Inside the organisation it publishes at once; outside it follows the data class of the content and the rule of
 * its type, with an approval where they require one. The approval is bound to the checksum.
 */
import { z } from 'zod'
import {
  type ArtifactDeps,
  contentClasses,
  decideSharing,
  findArtifact,
  mayRead,
  sharingRules,
} from '#domains/artifacts'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { isOutside, type PolicyAnswer, type PolicyInput } from '#kernel/policy/policy'
import { defineCommandType, defineFunction, definePolicy, defineTask, type Definition } from './catalog/definitions.ts'
import { defineEffect, EffectFailure } from './catalog/effect-definition.ts'
import type { DataClass } from '#kernel/data-class'
import type { FactSources } from './facts.ts'

export const PUBLISH_ARTIFACT = 'Publish Artifact'
const EFFECT = 'artifact.publish'
const UNDO = 'artifact.unpublish'

const payload = z.strictObject({
  artifact_id: z.string().refine((text) => decodeId('artifact', text).ok, 'the id of an artifact'),
  checksum: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'the checksum of the artifact'),
  destination: z.string().regex(/^[\w.:+@-]{1,200}$/, 'an address such as finance@example.com, or internal'),
})

function textOf(given: JsonObject, field: string): string {
  const value = given[field]
  return typeof value === 'string' ? value : ''
}

function idOf(given: JsonObject): string {
  const decoded = decodeId('artifact', textOf(given, 'artifact_id'))
  if (!decoded.ok) throw new EffectFailure('validation_error', decoded.reason)
  return decoded.value
}

/** The facts about an artifact for rules. An artifact that the requester may not see does not exist. */
const fact = z.object({
  status: z.string(),
  checksum: z.string(),
  // Both rooms must have the same classes, or this does not compile.
  data_class: z.enum(contentClasses) satisfies z.ZodType<DataClass>,
  external_sharing: z.enum(sharingRules),
})

export function artifactFacts({ db, types }: Pick<ArtifactDeps, 'db' | 'types'>): FactSources {
  return {
    artifact: async (_deps, command) => {
      const artifact = await findArtifact(db, command.workspace_id, idOf(command.payload))
      const { user_id: userId, metadata } = command.context
      const role = metadata['role'] === 'admin' ? 'admin' : 'reader'
      if (!artifact || !mayRead(artifact, { userId, role })) return null
      const type = types.get(artifact.artifact_type)
      return {
        status: artifact.status,
        checksum: artifact.checksum,
        data_class: artifact.metadata.data_class,
        // The sharing rule of a type that is no longer defined is unknown.
        external_sharing: type.ok ? type.value.external_sharing : 'deny',
      }
    },
  }
}

const deny = (reason: string): PolicyAnswer => ({ decision: 'deny', reasons: [reason] })

function decideArtifactSharing(input: PolicyInput): PolicyAnswer {
  const facts = input.context['facts'] as Readonly<Record<string, unknown>> | undefined
  const known = fact.safeParse(facts?.['artifact'])
  if (!known.success) return deny('There is no such artifact.')
  const { status, checksum, data_class, external_sharing } = known.data
  const asked = input.command['payload'] as JsonObject
  if (checksum !== asked['checksum']) return deny('The checksum of the artifact differs from the one in the request.')
  if (!['ready', 'unpublished', 'published'].includes(status))
    return deny(`An artifact that is ${status} cannot be published.`)
  switch (decideSharing({ external_sharing }, data_class, isOutside(input))) {
    case 'allow':
      return { decision: 'allow' }
    case 'require_approval':
      return {
        decision: 'require_approval',
        reasons: [`An artifact of the class ${data_class} would leave the organisation.`],
        required_approvals: ['data_owner'],
      }
    case 'deny':
      return deny(`An artifact of the class ${data_class} may not leave the organisation.`)
  }
}

/** What a review-driven swarm made is published after its reviewers passed it. This holds for every requester. */
function decideReview({ context }: PolicyInput): PolicyAnswer | undefined {
  const { review } = (context['facts'] ?? {}) as Readonly<Record<string, unknown>>
  if (review === null) return undefined
  return review === true ? undefined : deny('No reviewer of its swarm has passed the artifact.')
}

export const publishArtifactDefinitions: readonly Definition[] = [
  definePolicy(
    { name: 'review_before_publish', category: 'external_sharing', actions: '*', decide: decideReview },
    { facts: ['review'] },
  ),
  definePolicy(
    { name: 'artifact_sharing', category: 'external_sharing', actions: '*', decide: decideArtifactSharing },
    { facts: ['artifact', 'inside'] },
  ),
  defineEffect({
    effect_type: EFFECT,
    class: 'keyed',
    // Its destination decides: the rules look at it.
    outward: false,
    async do({ payload: asked, artifacts }) {
      const artifact = await artifacts.find(idOf(asked))
      if (artifact.checksum !== asked['checksum'])
        throw new EffectFailure('validation_error', 'the checksum of the artifact differs from the one in the request')
      const destination = textOf(asked, 'destination')
      await artifacts.publish(artifact.artifact_id, destination)
      return { artifact_id: artifact.artifact_id, checksum: artifact.checksum, destination }
    },
    undo: {
      name: UNDO,
      async do({ undone, artifacts, emit }) {
        await artifacts.withdraw(idOf(undone.payload))
        emit(UNDO)
        return { unpublished: idOf(undone.payload) }
      },
    },
  }),
  defineFunction({
    name: 'publish_artifact',
    plan: ({ artifact_id = null, checksum = null, destination = null }) => [
      { effect_type: EFFECT, payload: { artifact_id, checksum, destination } },
    ],
  }),
  defineCommandType({
    name: 'publish_artifact',
    description: 'Publishes an artifact inside the organisation, or outside if its rules and an approver allow it.',
    payload,
    side_effects: [EFFECT],
    error_classes: ['validation_error', 'policy_denied', 'approval_rejected', 'internal_error'],
    compensation: { supported: true },
    cancellable_by: ['requester', 'admin'],
    audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed', 'artifact_published'],
    risk_level: 'medium',
    // The fields of the request are public. The content is not, and the rule `artifact_sharing` checks it.
    fields: { artifact_id: 'public', checksum: 'public', destination: 'public' },
    approval: { approver: 'role:data_owner' },
    idempotency: { required: false },
  }),
  defineTask({
    name: PUBLISH_ARTIFACT,
    description: 'Publishes an artifact.',
    command_type: 'publish_artifact',
    function_name: 'publish_artifact',
    ingress_types: ['user_request', 'agent_action'],
    required_inputs: ['artifact_id', 'checksum', 'destination'],
    async_required: true,
    artifact_output_possible: true,
    policy_checks: ['permission', 'data_safety', 'artifact_sharing', 'review_before_publish'],
    risk_level: 'medium',
  }),
]
