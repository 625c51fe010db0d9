/** The project that `npm start` serves in this checkout: the example catalog. A project of your own has a file like this one. */
import { defineProject } from '@concordhq/concord'
import { exampleCatalog, travelPreferences } from './examples/catalog/index.ts'

export default defineProject({
  catalog: exampleCatalog({ vendorUrl: 'http://127.0.0.1:7430', folder: '.concord/examples' }),
  // Reports go to these addresses without a question. Every other destination needs the approval of the data owner.
  inside: ['concord.example', '*.concord.example'],
  memory: { schemas: [travelPreferences] },
})
