/** The commands `Deploy DAG` and `Roll Back DAG`: policy and approval as for any command. The undo of each swaps the pointer back. */
import { z } from 'zod'
import { defineArtifactType } from '#domains/artifacts'
import { allow, defineCommand, defineEffect, type Definition, EffectFailure } from '#domains/commands'
import { decodeId, encodeId } from '#kernel/ids'
import { type Refusal, refuse } from '#kernel/refusal'
import { statement, type Tx } from '#store'
import { findCurrentVersion, findVersionOfHash } from './dag.ts'
import { readDag } from './dag-file.ts'
import { dagHash } from './decide-flow.ts'
import { deployDag, rollBackDag } from './deploy.ts'
import type { FlowDeps } from './deps.ts'

const DEPLOY_DAG = 'Deploy DAG'
const ROLLBACK_DAG = 'Roll Back DAG'
export const dagArtifactType = defineArtifactType({
  name: 'dag',
  description: 'The YAML of a DAG of datasets.',
  media_types: ['application/yaml'],
})
const YAML_CHARS_MAX = 500_000

/** $1 workspace. */
const findOrg = statement<{ readonly org_id: string }>(
  'flow.find_org',
  `select org_id from identity.workspaces where id = $1::uuid`,
)
async function orgOfWorkspace({ commands: { db } }: FlowDeps, workspaceId: string): Promise<string> {
  const [found] = await db.run(findOrg, [workspaceId])
  if (!found) throw new Error(`The workspace ${workspaceId} does not exist.`)
  return found.org_id
}

const fail = (reason: string) => new EffectFailure('validation_error', reason, 'no')
/** A deployment at the same time is waited for: the next attempt sees its version. */
const failOf = ({ code, reason }: Refusal) =>
  code === 'flow.dag.changed' ? new EffectFailure('temporary_database_error', reason, 'no') : fail(reason)
const deployInput = z.object({ dag: z.string(), yaml: z.string().max(YAML_CHARS_MAX) })
const rollbackInput = z.object({ dag: z.string(), version: z.string() })
const versionText = (id: string | null) => (id === null ? null : encodeId('dag_version', id))

export function deployDefinitions(deps: () => FlowDeps): readonly Definition[] {
  const undo = async (
    workspaceId: string,
    {
      dag,
      version,
      previous,
    }: { readonly dag: string; readonly version: string | null; readonly previous: string | null },
    alongside: (work: (tx: Tx) => Promise<void>) => void,
  ) => {
    const [only, to] = [
      decodeId('dag_version', version ?? ''),
      previous === null ? null : decodeId('dag_version', previous),
    ]
    const orgId = await orgOfWorkspace(deps(), workspaceId)
    if (!only.ok || (to && !to.ok)) throw fail('The result does not name its versions.')
    // Another deployment since then stays: the pointer is swapped only if it is still ours.
    alongside(
      async (tx) =>
        void (await rollBackDag(deps(), tx, { orgId, dag, versionId: to?.value ?? null, only: only.value })),
    )
    return { dag, version: previous }
  }
  const deploy = defineEffect('flow.deploy', {
    input: deployInput,
    class: 'queryable',
    outward: false,
    async do({ input, workspaceId, commandId, artifacts, alongside }) {
      const spec = readDag(Buffer.from(input.yaml), deps())
      if (!spec.ok) throw fail(spec.reason)
      if (spec.value.dag !== input.dag) throw fail(`The YAML is that of ${spec.value.dag}.`)
      const orgId = await orgOfWorkspace(deps(), workspaceId)
      const { db, newId } = deps().commands
      const previousId = (await findCurrentVersion(db, orgId, input.dag))?.id ?? null
      const known = await findVersionOfHash(db, orgId, input.dag, dagHash(spec.value))
      const versionId = known?.id ?? newId()
      const yaml = await artifacts.write(
        {
          type: 'dag',
          file_name: `${input.dag}.yaml`,
          content: { text: input.yaml, content_type: 'application/yaml' },
        },
        'yaml',
      )
      alongside(async (tx) => {
        const deployed = await deployDag(deps(), tx, {
          orgId,
          workspaceId,
          commandId,
          spec: spec.value,
          versionId,
          previousId,
        })
        if (!deployed.ok) throw failOf(deployed)
        if (deployed.value.version.id !== versionId)
          throw failOf(refuse('flow.dag.changed', 'It was deployed meanwhile.'))
      })
      return {
        dag: input.dag,
        version: versionText(versionId),
        previous: versionText(previousId),
        is_new: !known,
        yaml: yaml.artifact_id,
      }
    },
    // What it writes commits with its record. So an attempt without a record has done nothing.
    find: async () => ({ found: false }),
    // Swapping back twice changes nothing the second time.
    undo: { class: 'keyed', do: ({ workspaceId, result, alongside }) => undo(workspaceId, result, alongside) },
  })
  const rollBack = defineEffect('flow.roll_back', {
    input: rollbackInput,
    class: 'queryable',
    outward: false,
    async do({ input, workspaceId, alongside }) {
      const id = decodeId('dag_version', input.version)
      if (!id.ok) throw fail(id.reason)
      const orgId = await orgOfWorkspace(deps(), workspaceId)
      const previousId = (await findCurrentVersion(deps().commands.db, orgId, input.dag))?.id ?? null
      alongside(async (tx) => {
        const rolled = await rollBackDag(deps(), tx, { orgId, dag: input.dag, versionId: id.value })
        if (!rolled.ok) throw failOf(rolled)
        if (rolled.value.previousId !== previousId)
          throw failOf(refuse('flow.dag.changed', 'It was deployed meanwhile.'))
      })
      return { dag: input.dag, version: input.version, previous: versionText(previousId) }
    },
    find: async () => ({ found: false }),
    // Swapping back twice changes nothing the second time.
    undo: { class: 'keyed', do: ({ workspaceId, result, alongside }) => undo(workspaceId, result, alongside) },
  })
  return [
    ...defineCommand('deploy_dag', {
      description: 'Deploys a DAG of datasets from its YAML.',
      input: deployInput,
      policy: () => allow(),
      steps: (input) => [deploy(input)],
      uses: [deploy],
      risk: 'medium',
      task: { name: DEPLOY_DAG },
    }).definitions,
    ...defineCommand('roll_back_dag', {
      description: 'Serves an earlier version of a DAG again.',
      input: rollbackInput,
      policy: () => allow(),
      steps: (input) => [rollBack(input)],
      uses: [rollBack],
      risk: 'medium',
      task: { name: ROLLBACK_DAG },
    }).definitions,
  ]
}
