/** `concord job-groups`: jobs that belong together, side by side or one after the other. */
import type { Command } from 'commander'
import type { GroupReport } from '#app/scheduler'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { answer, type FileFlag, fileOption, type Jobs, parseWhole, readId, showJobId, withJobs } from './jobs-file.ts'
import { readJsonFlags } from './json-source.ts'
import { type Cli, formatTable, type Outcome } from './terminal.ts'

type GroupBody = Parameters<Jobs['submitGroup']>[1]

export function addJobGroups(program: Command, cli: Cli): void {
  const groups = program.command('job-groups').description('jobs that belong together, in parallel or in sequence')
  fileOption(groups.command('add <json-file>'))
    .description(
      'queue the jobs of a group, all or none: {"mode": …, "on_failure": …, "jobs": […]}; - reads standard input',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ echo \'{"mode":"sequential","jobs":[{"job_type":"command","params":{"command":"true"}}]}\' | concord job-groups add -\n',
    )
    .action(
      cli.handle(async (source: string, flags: FileFlag): Promise<Outcome> => {
        const body = await readBody(cli, source)
        if (!body.ok) return body
        return withJobs(cli, flags, (scheduler, jobs) =>
          answer(cli, program, jobs.submitGroup(scheduler, body.value), jobs.toSubmittedGroupView, (made) => {
            cli.terminal.out(`${jobs.toSubmittedGroupView(made).group_id}\n`)
            for (const { job_id } of made.jobs) cli.terminal.out(`  ${showJobId(job_id)}\n`)
          }),
        )
      }),
    )
  fileOption(groups.command('list'))
    .description('groups, newest first, with how far they are')
    .option('--limit <count>', 'how many at most (default: 50)', parseWhole, 50)
    .addHelpText('after', '\nExample:\n  $ concord job-groups list --limit 5\n')
    .action(
      cli.handle((flags: FileFlag & { limit: number }) =>
        withJobs(cli, flags, (scheduler, jobs) =>
          answer(
            cli,
            program,
            jobs.listGroups(scheduler, { limit: flags.limit }),
            (rows) => ({ groups: rows.map(jobs.toGroupView) }),
            (rows) => cli.terminal.out(rows.length === 0 ? 'no groups\n' : tableOf(rows, jobs)),
          ),
        ),
      ),
    )
  fileOption(groups.command('show <group>'))
    .description('one group: its rules, its status, its members by outcome')
    .addHelpText('after', '\nExample:\n  $ concord job-groups show jgrp_0197…\n')
    .action(
      cli.handle((id: string, flags: FileFlag) =>
        withJobs(cli, flags, (scheduler, jobs) => {
          const groupId = readId('job_group', id)
          if (!groupId.ok) return groupId
          return answer(cli, program, jobs.readGroup(scheduler, groupId.value), jobs.toGroupView, (report) =>
            cli.terminal.out(tableOf([report], jobs)),
          )
        }),
      ),
    )
}

async function readBody(cli: Cli, source: string): Promise<Decision<GroupBody>> {
  const read = await readJsonFlags(cli.terminal, { file: source }, undefined)
  if (!read.ok) return read
  // Every field is checked by the service.
  if (read.value) return accept(read.value as unknown as GroupBody)
  return refuse('cli.usage', 'a group is read from a file, or from standard input with -')
}

function tableOf(rows: readonly GroupReport[], { toGroupView }: Jobs): string {
  return formatTable(
    ['group', 'name', 'mode', 'on failure', 'status', 'members'],
    rows.map(toGroupView).map((row) => {
      const members = Object.entries(row.counts).flatMap(([kind, count]) => (count === 0 ? [] : [`${count} ${kind}`]))
      return [row.group_id, showLine(row.name ?? ''), row.mode, row.on_failure, row.status, members.join(', ')]
    }),
  )
}
