/** `concord job-groups`: local jobs that run together, in parallel or in sequence. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { fileVerb, type Jobs, withId, type OnFile } from './jobs-file.ts'
import { readJsonFlags } from './json-source.ts'
import { mapAnswer, noun, parseWhole, table } from './noun.ts'
import type { Cli } from './terminal.ts'

type GroupBody = Parameters<Jobs['submitGroup']>[1]
type GroupView = ReturnType<Jobs['toGroupView']>

export const jobGroups = noun('local jobs that run together, in parallel or in sequence', (cli) => ({
  'add <json-file>': fileVerb({
    description:
      'queue the jobs of a group, all or none: {"mode": …, "on_failure": …, "jobs": […]}; - reads standard input',
    examples: [
      `echo '{"mode":"sequential","jobs":[{"job_type":"command","params":{"command":"true"}}]}' | concord job-groups add -`,
    ],
    async ask({ scheduler, jobs }: OnFile, source: string) {
      const body = await readBody(cli, source)
      return body.ok ? mapAnswer(jobs.submitGroup(scheduler, body.value), jobs.toSubmittedGroupView) : body
    },
    say: ({ group_id, jobs }) => `${group_id}\n${jobs.map(({ job_id }) => `  ${job_id}\n`).join('')}`,
  }),
  list: fileVerb({
    description: 'list groups and their progress, newest first',
    options: [['--limit <count>', 'maximum number of results (default: 50)', parseWhole, 50]],
    examples: ['concord job-groups list --limit 5'],
    ask: ({ scheduler, jobs }: OnFile, { limit }: { limit: number }) =>
      mapAnswer(jobs.listGroups(scheduler, { limit }), (rows) => ({ groups: rows.map(jobs.toGroupView) })),
    say: ({ groups }) => (groups.length === 0 ? 'no groups\n' : table(cli.terminal, columns, groups)),
  }),
  'show <group>': fileVerb({
    description: 'show one group: its rules, its status, its members by outcome',
    examples: ['concord job-groups show jgrp_0197…'],
    ask: ({ scheduler, jobs }: OnFile, id: string) =>
      withId('job_group', id, (groupId) => mapAnswer(jobs.readGroup(scheduler, groupId), jobs.toGroupView)),
    say: (group) => table(cli.terminal, columns, [group]),
  }),
}))

async function readBody(cli: Cli, source: string): Promise<Decision<GroupBody>> {
  const read = await readJsonFlags(cli.terminal, { file: source }, undefined)
  if (!read.ok) return read
  // The service checks every field.
  if (read.value) return accept(read.value as unknown as GroupBody)
  return refuse('cli.usage', 'The description of the group is missing.', {
    hint: 'Name a JSON file, or - for standard input.',
  })
}

const columns = {
  group: ({ group_id }: GroupView) => group_id,
  name: ({ name }: GroupView) => name,
  mode: ({ mode }: GroupView) => mode,
  'on failure': ({ on_failure }: GroupView) => on_failure,
  status: ({ status }: GroupView) => status,
  members: ({ counts }: GroupView) =>
    Object.entries(counts)
      .flatMap(([kind, count]) => (count === 0 ? [] : [`${count} ${kind}`]))
      .join(', '),
}
