from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('budgets', '0006_sending_and_balances'),
    ]

    operations = [
        migrations.AddField(
            model_name='followup',
            name='asked_at',
            field=models.DateTimeField(blank=True, help_text='when its managers were told that it is due', null=True),
        ),
    ]
