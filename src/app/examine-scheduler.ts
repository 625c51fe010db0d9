/** Looks at the scheduler file that `concord up` would own: whether it can be used, whether it is sound, and who runs it. */
import { existsSync } from 'node:fs'
import { checkInvariants, describeSelfCheck, isOwned, type Scheduler } from '#domains/scheduler'
import type { Config } from './config.ts'
import { broken, type Finding } from './finding.ts'
import { openJobs } from './scheduler.ts'

const check = 'scheduler'

export function checkScheduler({ schedulerFile: file }: Pick<Config, 'schedulerFile'>): Finding {
  if (file === undefined) {
    return { check, state: 'well', found: 'off; CONCORD_SCHEDULER_FILE=./.concord/jobs.db turns it on in `concord up`' }
  }
  if (!existsSync(file)) return { check, state: 'note', found: `${file} (will be made)`, next: '`concord up` makes it' }
  const opened = openJobs({ file, role: 'guest' })
  if (!opened.ok) return broken(check, opened)
  try {
    return judge(opened.value)
  } finally {
    opened.value.close()
  }
}

function judge(scheduler: Scheduler): Finding {
  const checked = checkInvariants(scheduler)
  if (!checked.ok) return broken(check, checked)
  const { file } = scheduler.db
  if (checked.value.violations.length > 0) {
    return {
      check,
      state: 'broken',
      found: `${file}: ${describeSelfCheck(checked.value)}`,
      next: '`concord scheduler check` shows it; the next start repairs what can be repaired',
    }
  }
  if (isOwned(file)) return { check, state: 'well', found: `${file} is sound and running` }
  return { check, state: 'note', found: `${file} is sound; nobody runs it`, next: 'start it with `concord up`' }
}
